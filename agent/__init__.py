"""Weir's agent: sources → core → export.

``agent.sources``  where events come from: HTTP, the host
``agent.core``     decode → measure → judge → decide; pure: no clock, no I/O
``agent.export``   where judgements go: Prometheus, the status page, the terminal
``agent.service``  the process around them: configuration, persistence, timers
"""

__version__ = "0.1.0"
