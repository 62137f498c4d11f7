#if !os(Linux)
  #error("Opportune needs Linux: futexes, io_uring, scheduling classes. Elsewhere run it in a container.")
#endif
