/*
 * The reader and the writer of lines of the client library, for the fuzzer: the library's own header does not
 * show them.
 */
#ifndef OPPORTUNE_CLIENT_LINES_H
#define OPPORTUNE_CLIENT_LINES_H

/* Under names of their own, so that a program may link the library as well. */
#define oppclient_line opp_checked_line
#define oppclient_line_read opp_checked_line_read
#define oppclient_line_quote opp_checked_line_quote
#define oppclient_line_value opp_checked_line_value

#include "../../../OpportuneClient/line.h"

#endif
