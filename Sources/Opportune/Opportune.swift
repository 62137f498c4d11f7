@_exported import OpportuneApps
@_exported import OpportuneScheduler
