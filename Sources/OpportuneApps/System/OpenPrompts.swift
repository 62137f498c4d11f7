/// The questions to the user that await an answer.
struct OpenPrompts: Sendable {
  private var open: [PromptID: (app: AppID, prompt: Prompt)] = [:]
  private var next: UInt32 = 1

  subscript(number: PromptID) -> (app: AppID, prompt: Prompt)? { open[number] }

  mutating func add(_ prompt: Prompt, of app: AppID) -> PromptID {
    let number = PromptID(number: next)
    next &+= 1
    open[number] = (app, prompt)
    return number
  }

  mutating func close(_ number: PromptID) { open[number] = nil }
}
