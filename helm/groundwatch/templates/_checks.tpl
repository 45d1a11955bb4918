{{/* What a schema cannot say: values that are wrong together. */}}
{{- define "groundwatch.checks" -}}
{{- include "groundwatch.checkMode" . -}}
{{- range $workload := include "groundwatch.workloads" . | fromJsonArray -}}
  {{- include "groundwatch.checkNumber" (dict "root" $ "workload" $workload) -}}
{{- end -}}
{{- include "groundwatch.checkSecrets" . -}}
{{- end -}}

{{/* That what is set belongs to the mode, and that pods of several kinds can meet. */}}
{{- define "groundwatch.checkMode" -}}
{{- $shared := and (dig "journal" "kafka" nil .Values.config) (dig "store" "url" nil .Values.config) -}}
{{- if eq .Values.mode "roles" -}}
  {{- if not $shared -}}
    {{- fail "mode: roles needs a journal and a store that pods share; set config.journal.kafka and config.store.url" -}}
  {{- end -}}
  {{- if .Values.autoscaling.enabled -}}
    {{- fail "autoscaling.enabled: is for mode single; set roles.receiver.autoscaling" -}}
  {{- end -}}
  {{- if .Values.keda.enabled -}}
    {{- fail "keda.enabled: is for mode single; set roles.processor.keda and roles.judge.keda" -}}
  {{- end -}}
  {{- if gt (int .Values.replicas) 1 -}}
    {{- fail "replicas: is for mode single; set replicas of each of roles" -}}
  {{- end -}}
{{- else -}}
  {{- if and (include "groundwatch.several" .) (not $shared) -}}
    {{- fail "replicas: more than one pod needs a journal and a store that they share; set config.journal.kafka and config.store.url" -}}
  {{- end -}}
  {{- if and .Values.autoscaling.enabled .Values.keda.enabled -}}
    {{- fail "keda.enabled: autoscaling.enabled sets the number of pods too; choose one" -}}
  {{- end -}}
  {{- range $role, $values := .Values.roles -}}
    {{- range $scaler := list "autoscaling" "keda" -}}
      {{- if dig $scaler "enabled" false $values -}}
        {{- fail (printf "roles.%s.%s.enabled: needs mode: roles" $role $scaler) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether more than one pod can have the review page, or in mode single anything. */}}
{{- define "groundwatch.several" -}}
{{- if eq .Values.mode "roles" -}}
  {{- if gt (int .Values.roles.review.replicas) 1 -}}true{{- end -}}
{{- else if or .Values.autoscaling.enabled .Values.keda.enabled (gt (int .Values.replicas) 1) -}}true{{- end -}}
{{- end -}}

{{/* That each pod of .workload gets work. */}}
{{- define "groundwatch.checkNumber" -}}
{{- $workload := .workload -}}
{{- $key := ternary (printf "roles.%s." $workload.role) "" (ne $workload.role "") -}}
{{- $partitions := int (dig "partitions" 12 (dig "journal" "kafka" nil .root.Values.config | default dict)) -}}
{{- $bounded := has $workload.role (list "" "processor" "judge") -}}
{{- range $name := list "autoscaling" "keda" -}}
  {{- $scaling := index $workload $name | default dict -}}
  {{- if $scaling.enabled -}}
    {{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) -}}
      {{- fail (printf "%s%s.minReplicas: is above maxReplicas" $key $name) -}}
    {{- end -}}
    {{- if and $bounded (gt (int $scaling.maxReplicas) $partitions) -}}
      {{- fail (printf "%s%s.maxReplicas: only %d pods get work; raise config.journal.kafka.partitions before the topics are made" $key $name $partitions) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and $bounded (not (include "groundwatch.scaled" .)) (gt (int $workload.replicas) $partitions) -}}
  {{- fail (printf "%sreplicas: only %d pods get work; raise config.journal.kafka.partitions before the topics are made" $key $partitions) -}}
{{- end -}}
{{- if and (dig "keda" "enabled" false $workload) (not .root.Values.keda.prometheus) -}}
  {{- fail "keda.prometheus: needed, such as http://prometheus.monitoring:9090" -}}
{{- end -}}
{{- end -}}

{{/* That each secret that the program will look for comes from a Secret, and nowhere else. */}}
{{- define "groundwatch.checkSecrets" -}}
{{- $config := .Values.config -}}
{{- $review := $config.review | default dict -}}
{{- if $review.users -}}
  {{- fail "config.review.users: hashes of passwords would lie in a ConfigMap; put the lines into a Secret and name it by config.review.users_env and secretEnv" -}}
{{- end -}}
{{- if and (include "groundwatch.several" .) $review.users_env (not $review.session_key_env) -}}
  {{- fail "config.review.session_key_env: needed where several pods serve the review page, or each knows its own sessions only" -}}
{{- end -}}
{{- range $key, $variable := include "groundwatch.secretsNamed" . | fromJson -}}
  {{- if hasKey $.Values.env $variable -}}
    {{- fail (printf "env.%s: config.%s names a secret; give it by secretEnv" $variable $key) -}}
  {{- end -}}
  {{- if not (hasKey $.Values.secretEnv $variable) -}}
    {{- fail (printf "secretEnv: config.%s names %s; add %s: {name: SECRET, key: KEY}" $key $variable $variable) -}}
  {{- end -}}
{{- end -}}
{{- range $variable, $_ := .Values.env -}}
  {{- if hasKey $.Values.secretEnv $variable -}}
    {{- fail (printf "env.%s: secretEnv gives it too; choose one" $variable) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* The environment variables that the program will look for, by the key that names each, as JSON. */}}
{{- define "groundwatch.secretsNamed" -}}
{{- $config := .Values.config -}}
{{- $named := dict -}}
{{- range $path := list
  "receive.ingest_token_env"
  "store.password_env"
  "journal.kafka.security.sasl_password_env"
  "source.kafka.security.sasl_password_env"
  "review.users_env"
  "review.session_key_env"
  "review.api_token_env"
  "review.handover.webhook_url_env"
  "review.handover.mail.password_env"
  "judge.second.api_key_env"
-}}
  {{- $value := $config -}}
  {{- range $key := splitList "." $path -}}
    {{- $value = index ($value | default dict) $key -}}
  {{- end -}}
  {{- if $value -}}{{- $_ := set $named $path $value -}}{{- end -}}
{{- end -}}
{{- $judge := $config.judge | default dict -}}
{{- $asked := or (eq ($judge.engine | default "lexical") "openai") (and $judge.second (not $judge.second.base_url)) -}}
{{- range $_, $scorer := $judge.scorers -}}
  {{- $asked = or $asked (eq ($scorer.engine | default "lexical") "openai") -}}
{{- end -}}
{{- if $asked -}}
  {{- $openai := $judge.openai | default dict -}}
  {{- $common := ternary $openai.api_key_env "OPENAI_API_KEY" (hasKey $openai "api_key_env") -}}
  {{- range $number, $endpoint := $openai.endpoints -}}
    {{- $variable := ternary $endpoint.api_key_env $common (hasKey $endpoint "api_key_env") -}}
    {{- if $variable -}}{{- $_ := set $named (printf "judge.openai.endpoints.%d.api_key_env" $number) $variable -}}{{- end -}}
  {{- else -}}
    {{- if $common -}}{{- $_ := set $named "judge.openai.api_key_env" $common -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- $named | toJson -}}
{{- end -}}
