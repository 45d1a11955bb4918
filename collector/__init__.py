"""Domain, ports and runtime of groundwatch: telemetry in, requests out."""
