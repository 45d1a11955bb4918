"""Grafana dashboards as code, and the ways they reach a Grafana."""
