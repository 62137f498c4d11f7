import OpportuneBase

/// The difference of two readings of a clock, 0 where another core's was behind.
func elapsed(from start: Nanoseconds, to end: Nanoseconds) -> Nanoseconds { end.saturatingSubtract(start) }
