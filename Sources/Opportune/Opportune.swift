@_exported import OpportuneScheduler
