/// What shows dialogs, alerts and signs of a ``LocationSystem`` to a user.
/// (R-AUTH-07, R-AUTH-09, R-AUTH-19, R-AUTH-22, R-AUTH-23)
///
/// A host calls it for the effects of the same names, and hands the answers back as events. Calls come from
/// any thread.
public protocol LocationUserInterface: Sendable {
  /// Shows a dialog or a reminder until it is answered.
  ///
  /// - Returns: ``DialogAnswer/failed`` where nobody answered, it could not be shown, or the task was
  ///   cancelled, which is how a dialog is taken away. That is never a "no".
  func ask(_ dialog: LocationDialog) async -> DialogAnswer

  /// Alerts the user of a crossing.
  ///
  /// - Returns: `nil` where nobody answered; as with ``AlertAnswer/close`` the app learns nothing then.
  func alert(_ alert: LocationAlert) async -> AlertAnswer?

  /// Shows from now on what an app gets. (R-AUTH-22)
  func show(_ indicator: LocationIndicator, app: String) async

  /// Shows a banner over what is in front, by which the user comes back to an app, until it is selected.
  /// (R-AUTH-23)
  ///
  /// - Returns: whether it was: the host brings the app in front then. `false` where it cannot be selected
  ///   any more, or the task was cancelled, which is how the banner is taken away.
  func offerReturn(to app: String) async -> Bool
}
