"""One supervisor of child processes: start, messages, progress, deadline, memory limit, cancel, death.

No library does it: pebble and loky end a worker at its task's deadline, but know no message on the way, no cancel that
is heeded with the best result so far, and no grace for one that others keep from the processor; anyio's processes end
at once; all three unpickle whatever a child says, which a child that ran somebody's model must not get to do here.
"""
