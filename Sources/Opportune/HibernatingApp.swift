import Foundation
import OpportuneApps
import OpportuneMemory

/// An app whose state can be saved to the hibernation store and restored. (R-LIFE-07, R-MEM-05)
///
/// Nothing is written for other apps; they are terminated instead of hibernated. So is an app with more to
/// write, without its caches, than `RemovalPolicy.hibernatesUpTo`, by default 32 MB.
public protocol HibernatingApp: AppDelegate {
  /// Returns what the app needs to continue later, and releases it. It need not include what can be made
  /// again. Memory that the app has reported with `AppMemory.setOutside(bytes:)` counts as released until
  /// the app is restored.
  ///
  /// Called when no code of the app runs, and not on its executor. If it throws, or takes longer than half of
  /// `AppsPolicy.callbackLimit`, the app is terminated; the call continues in the background, and its
  /// result is dropped.
  func handOver() throws -> HandedState
  /// Restores the state that was handed over, whether or not it was written. Called before any code of the
  /// app runs, and not on its executor. The memory has its content again, at the same address. If it throws,
  /// or exceeds the same time limit, the app is terminated; it is launched again if it comes to the
  /// foreground.
  func takeOver(_ state: HandedState) throws
}

/// The state that an app hands over when it is hibernated.
public struct HandedState: Sendable {
  /// Bytes in a format of the app's choice.
  public var bytes: [UInt8]
  /// Memory that is written to the store with the bytes and then released to the kernel; filled again before
  /// ``HibernatingApp/takeOver(_:)``.
  public var memory: [HeldMemory]

  /// Makes a state of bytes, and of memory that is written as it is.
  public init(_ bytes: [UInt8] = [], memory: [HeldMemory] = []) {
    self.bytes = bytes
    self.memory = memory
  }

  /// - Throws: the error of encoding the value as JSON.
  public init(encoding value: some Encodable, memory: [HeldMemory] = []) throws {
    self.init([UInt8](try JSONEncoder().encode(value)), memory: memory)
  }

  /// Decodes the value that was passed to ``init(encoding:memory:)``.
  ///
  /// - Throws: `DecodingError`.
  public func decoded<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
    try JSONDecoder().decode(type, from: Data(bytes))
  }
}
