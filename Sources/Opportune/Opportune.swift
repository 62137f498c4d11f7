@_exported import OpportuneIO
@_exported import OpportuneScheduler
