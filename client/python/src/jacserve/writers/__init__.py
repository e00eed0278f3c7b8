"""Jacobians to disk. Each writer grows its result under another name, records which rows are durable, and names it when
complete."""
