#!/bin/sh
# A fake training program on the device of fake_peaks.sh. Arguments: PRECISION BATCH OUT.
cat > "$3" <<JSON
{ "schema": 1, "samples": $((100 * $2)), "elapsed_s": 0.5, "synchronized": true,
  "effective": { "device": "cpu", "precision": "$1", "batch": $2, "threads": 1, "input_size": 224, "classes": 1000 },
  "details": { "device_name": "Fake CPU @ 1 GHz" } }
JSON
