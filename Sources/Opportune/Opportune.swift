@_exported import OpportuneApps
@_exported import OpportuneIO
@_exported import OpportuneMemory
@_exported import OpportuneScheduler

// The type of times in statistics.
@_exported import struct OpportuneBase.LatencyHistogram
// Types in the signatures of OpportuneIO, so that its users need no other package.
@_exported import struct SystemPackage.Errno
@_exported import struct SystemPackage.FileDescriptor
@_exported import struct SystemPackage.FilePath
@_exported import struct SystemPackage.FilePermissions
