{{/* What a schema cannot say: values that are wrong together. */}}
{{- define "groundwatch.checks" -}}
{{- $kafka := dig "journal" "kafka" nil .Values.config -}}
{{- $url := dig "store" "url" nil .Values.config -}}
{{- if include "groundwatch.several" . -}}
  {{- if not (and $kafka $url) -}}
    {{- fail "replicas: more than one pod needs a journal and a store that they share; set config.journal.kafka and config.store.url" -}}
  {{- end -}}
  {{- if gt (int (dig "sampling" "review_per_day" 0 .Values.config)) 0 -}}
    {{- fail "config.sampling.review_per_day: each of several pods would judge that many; leave it out" -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled .Values.keda.enabled -}}
  {{- fail "keda.enabled: autoscaling.enabled sets the number of pods too; choose one" -}}
{{- end -}}
{{- $partitions := int (dig "partitions" 12 ($kafka | default dict)) -}}
{{- range $key := list "autoscaling" "keda" -}}
  {{- $scaling := index $.Values $key -}}
  {{- if $scaling.enabled -}}
    {{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
      {{- fail (printf "%s.minReplicas: is above %s.maxReplicas" $key $key) -}}
    {{- end -}}
    {{- if gt (int $scaling.maxReplicas) $partitions -}}
      {{- fail (printf "%s.maxReplicas: only %d pods get work; raise config.journal.kafka.partitions before the topics are made" $key $partitions) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and .Values.keda.enabled (not .Values.keda.prometheus) -}}
  {{- fail "keda.prometheus: needed, such as http://prometheus.monitoring:9090" -}}
{{- end -}}
{{- $judge := .Values.config.judge | default dict -}}
{{- $openai := $judge.openai | default dict -}}
{{- $named := dict
  "receive.ingest_token_env" (dig "receive" "ingest_token_env" nil .Values.config)
  "store.password_env" (dig "store" "password_env" nil .Values.config)
  "journal.kafka.security.sasl_password_env" (dig "security" "sasl_password_env" nil ($kafka | default dict))
  "review.session_key_env" (dig "review" "session_key_env" nil .Values.config)
  "review.api_token_env" (dig "review" "api_token_env" nil .Values.config)
  "review.handover.webhook_url_env" (dig "review" "handover" "webhook_url_env" nil .Values.config)
  "review.handover.mail.password_env" (dig "password_env" nil (dig "review" "handover" "mail" dict .Values.config | default dict))
  "source.kafka.security.sasl_password_env" (dig "security" "sasl_password_env" nil (dig "source" "kafka" dict .Values.config | default dict))
-}}
{{- if eq ($judge.engine | default "lexical") "openai" -}}
  {{- $shared := ternary $openai.api_key_env "OPENAI_API_KEY" (hasKey $openai "api_key_env") -}}
  {{- range $number, $endpoint := $openai.endpoints -}}
    {{- $_ := set $named (printf "judge.openai.endpoints.%d.api_key_env" $number) (ternary $endpoint.api_key_env $shared (hasKey $endpoint "api_key_env")) -}}
  {{- else -}}
    {{- $_ := set $named "judge.openai.api_key_env" $shared -}}
  {{- end -}}
{{- end -}}
{{- range $key, $variable := $named -}}
  {{- if and $variable (not (hasKey $.Values.secretEnv $variable)) -}}
    {{- fail (printf "secretEnv: config.%s names %s; add %s: {name: SECRET, key: KEY}" $key $variable $variable) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
