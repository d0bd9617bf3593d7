{{/* Release names hold a dot (namespace.instance), which names of Services must not. */}}
{{- define "vault.name" -}}
{{ .Release.Name | replace "." "-" }}
{{- end }}

{{- define "vault.selector" -}}
app.kubernetes.io/name: vault
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "vault.labels" -}}
{{ include "vault.selector" . }}
app.kubernetes.io/version: {{ .Chart.Version | quote }}
{{- end }}
