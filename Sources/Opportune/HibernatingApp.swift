import Foundation
import OpportuneApps
import OpportuneMemory

/// An app whose state can go to the hibernation store and come back. (R-LIFE-07, R-MEM-05)
///
/// An app that is not one has nothing written, and is terminated where others are hibernated.
public protocol HibernatingApp: AppDelegate {
  /// Hands over what it needs to go on later, and lets go of it. What can be made again need not be in it.
  /// What it had reported with ``AppMemory/setOutside(bytes:)`` counts as let go until it is back.
  ///
  /// Called when nothing of the app runs, not on its executor. Where it throws, or takes longer than half of
  /// ``AppsPolicy/callbackLimit``, the app is terminated; it then runs on in background, for nothing.
  func handOver() throws -> HandedState
  /// Takes back what it handed over, written or not. Called before anything of the app runs, not on its
  /// executor. Memory has its content again, at the same address. Where it throws, or takes as long as that,
  /// the app ends, and begins anew if it comes to the front.
  func takeOver(_ state: HandedState) throws
}

/// What an app hands over when it is hibernated.
public struct HandedState: Sendable {
  /// As the app likes.
  public var bytes: [UInt8]
  /// Written to the store with the bytes, then given back to the kernel; filled again before
  /// ``HibernatingApp/takeOver(_:)``.
  public var memory: [HeldMemory]

  /// What the app needs to go on later, as bytes and as memory that is written as it is.
  public init(_ bytes: [UInt8] = [], memory: [HeldMemory] = []) {
    self.bytes = bytes
    self.memory = memory
  }

  /// - Throws: what encoding the value as JSON throws.
  public init(encoding value: some Encodable, memory: [HeldMemory] = []) throws {
    self.init([UInt8](try JSONEncoder().encode(value)), memory: memory)
  }

  /// The value that ``init(encoding:memory:)`` was given.
  ///
  /// - Throws: `DecodingError`.
  public func decoded<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
    try JSONDecoder().decode(type, from: Data(bytes))
  }
}
