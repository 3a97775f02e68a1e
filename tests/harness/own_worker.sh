#!/bin/sh
# An external worker: OUT BATCH [SETTINGS]. It reports SETTINGS, members of a JSON object, under `effective`, $DETAILS
# under `details`, and $MORE at the top level. Its window takes $NAP seconds.
cat > "$1" <<JSON
{ "schema": 1, "samples": $((10 * $2)), "elapsed_s": ${NAP:-0.5}, "synchronized": true,
  "effective": { "device": "cpu", "precision": "fp32", "batch": $2${3:+, $3} },
  "details": { "device_name": "Fake CPU @ 1 GHz"${DETAILS:+, $DETAILS} }${MORE:+, $MORE} }
JSON
