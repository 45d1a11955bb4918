.DEFAULT_GOAL := help
VENV ?= .venv
BIN := $(VENV)/bin
