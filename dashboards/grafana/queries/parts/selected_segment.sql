$__conditionalAll(segment IN (${segment:sqlstring}), $segment)
