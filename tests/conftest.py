"""What every test relies on, whoever started the run."""

import signal

# A shell that starts a run in the background has it ignore SIGINT, and children inherit that: Ctrl-C would then end nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)
