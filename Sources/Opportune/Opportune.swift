@_exported import OpportuneApps
@_exported import OpportuneIO
@_exported import OpportuneMemory
@_exported import OpportuneScheduler

// What statistics have their times in.
@_exported import struct OpportuneBase.LatencyHistogram
// What calls of OpportuneIO take and return, so that who uses them needs no other package.
@_exported import struct SystemPackage.Errno
@_exported import struct SystemPackage.FileDescriptor
@_exported import struct SystemPackage.FilePath
@_exported import struct SystemPackage.FilePermissions
