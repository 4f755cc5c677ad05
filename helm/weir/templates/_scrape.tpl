{{/* How an endpoint is scraped, of a ServiceMonitor or a PodMonitor. */}}
{{- define "weir.scrape" -}}
scheme: {{ include "weir.scheme" . }}
interval: {{ .Values.monitor.interval }}
scrapeTimeout: {{ .Values.monitor.scrapeTimeout }}
{{- if .Values.config.metrics_need_token }}
authorization:
  credentials:
    name: {{ include "weir.secretName" . }}
    key: {{ .Values.token.key }}
{{- end }}
{{- end -}}
