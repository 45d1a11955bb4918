$__conditionalAll(service IN (${service:sqlstring}), $service)
  AND $__conditionalAll(segment IN (${segment:sqlstring}), $segment)
