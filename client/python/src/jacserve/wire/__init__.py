"""The wire: message classes of proto/jacserve/v1, and events read without copying their payload."""
