{{/*
A generated file as it is (never through tpl: it holds Prometheus's own templates), with the address
of the runbooks put in. files/ is links to alerts/generated and dashboards/generated; `helm package`
follows them. A checkout or a tool that drops links would give nothing, or the link's target as text.
*/}}
{{- define "weir.file" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $text := $root.Files.Get $name -}}
{{- if not (or (contains "\ngroups:\n" $text) (contains "\"panels\"" $text)) -}}
{{- fail (printf "%s is missing from the chart, whose files/ are links to generated files: check out with links (git config core.symlinks true), or install the package that `make chart` builds; or set alerts.enabled=false and dashboards.enabled=false" $name) -}}
{{- end -}}
{{- $url := default (printf "%s://localhost:%d/runbooks" (include "weir.scheme" $root) ($root.Values.agent.port | int)) $root.Values.runbooksUrl | replace "$" "$$" -}}
{{- $to := ternary ($url | replace "{}" "${1}") (printf "%s/${1}" (trimSuffix "/" $url)) (contains "{}" $url) -}}
{{- regexReplaceAll "http://localhost:9655/runbooks/([A-Za-z]+)" $text $to -}}
{{- end -}}
