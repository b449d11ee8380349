"""Reading one response: `Turn`, which composes framer, parser and accumulator, and the sources that feed it.

`turn` has `Turn`; `stream_reader` and `source` feed it from an asynchronous source within `time_limits`. Only these and
`stream_file` do I/O or look at a clock.
"""
