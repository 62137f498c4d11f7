import OpportuneIO
import OpportuneMemory

/// Access to the store's file through the I/O broker, in two classes: hibernation writes in the background,
/// reanimation reads in the foreground. The calling thread blocks, as in a system call.
package struct BrokeredAccess: StoreAccess {
  let writer: AppIO
  let reader: AppIO

  package init(writer: AppIO, reader: AppIO) {
    self.writer = writer
    self.reader = reader
  }

  package func read(_ file: Int32, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    reader.readWaiting(file, into: bytes, at: offset)
  }

  package func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
    writer.writeWaiting(file, from: bytes, at: offset)
  }

  package func synchronise(_ file: Int32) -> Int { writer.synchronizeDataWaiting(file) }
}
