/* Empty on purpose: liburing.h and numa.h clash when Swift imports both, so only C files include them. The
 * library itself is found at run time. */
