#!/bin/sh
# An external worker: OUT BATCH [SETTINGS]. SETTINGS are members of a JSON object. It reports them under `effective`,
# with what every worker reports there, $DETAILS under `details`, and
# $MORE beside these. Its window takes $NAP seconds.
cat > "$1" <<JSON
{ "schema": 1, "samples": $((10 * $2)), "elapsed_s": ${NAP:-0.5}, "synchronized": true,
  "effective": { "device": "cpu", "precision": "fp32", "batch": $2${3:+, $3} },
  "details": { "device_name": "Fake CPU @ 1 GHz"${DETAILS:+, $DETAILS} }${MORE:+, $MORE} }
JSON
