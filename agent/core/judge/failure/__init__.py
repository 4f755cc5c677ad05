"""Why a query ended: one cause, and where and what it was."""
