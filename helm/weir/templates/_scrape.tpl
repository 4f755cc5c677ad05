{{/*
How an endpoint is scraped, of a ServiceMonitor or a PodMonitor. Without honorLabels those of
config.labels that a target has too would be renamed to exported_….
*/}}
{{- define "weir.scrape" -}}
scheme: {{ include "weir.scheme" . | quote }}
interval: {{ .Values.monitor.interval | quote }}
scrapeTimeout: {{ .Values.monitor.scrapeTimeout | quote }}
honorLabels: true
{{- with .Values.monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.config.metrics_need_token }}
authorization:
  credentials:
    name: {{ include "weir.secretName" . | quote }}
    key: {{ .Values.token.key | quote }}
{{- end }}
{{- end -}}
