"""``weir history``: Spark event logs of any size, judged by the live core on Spark itself.

``places``    the job's file system: Spark's, so that any address it knows will do
``logs``      which files are logs, and which of them are new
``extract``   lines → the few that matter, in parallel over the parts of files
``judge``     the lines of one application → rows of every table, by the same ``Fleet``
``job``       the flow of these on Spark, its tables and what it remembers
``summary``, ``report``  what people read
"""
