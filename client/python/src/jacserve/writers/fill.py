"""Receives the rows that a sink still lacks, and keeps what is done whatever ends it.

In: a Jacobian, a recording sink, rows of an earlier run. Out: all rows in the sink, durable and recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jacserve.errors import InvalidRequestError, JacserveError
from jacserve.progress import Reporter
from jacserve.ranges import RangeSet
from jacserve.receive import receive_rows
from jacserve.writers.record import RecordingSink

if TYPE_CHECKING:
    from jacserve.jacobian import Jacobian


def fill(jac: Jacobian, sink: RecordingSink, done: RangeSet, streams: int) -> None:
    if streams < 1:
        raise InvalidRequestError(f"streams={streams}; at least one is needed")
    missing = done.missing_from(*jac.row_range)
    reporter = Reporter(jac.progress, len(jac), jac.row_nbytes, len(done))
    sink.report = reporter.rows_done
    try:
        receive_rows(jac.server, jac.prepared, jac.layout, missing, sink, streams=streams)
    except JacserveError as error:
        try:
            sink.save()
        except JacserveError as also:
            raise type(error)(f"{error.message}; also: {also.message}", error.hint) from error
        raise
    except BaseException:
        sink.save()
        raise
    finally:
        reporter.close()
    sink.save()
