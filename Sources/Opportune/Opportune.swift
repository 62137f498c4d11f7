@_exported import OpportuneApps
@_exported import OpportuneIO
@_exported import OpportuneMemory
@_exported import OpportuneScheduler
