#!/bin/sh
# A fake `perf` of a virtual machine without hardware counters. The test replaces MODE.
mode='MODE'
[ "$1" = stat ] || exit 129
shift
out=/dev/stderr
events=
while [ $# -gt 0 ]; do
    case "$1" in
    -x,) shift ;;
    -o) out=$2; shift 2 ;;
    -e) events=$2; shift 2 ;;
    --) shift; break ;;
    *) echo "Error: unknown switch $1" >&2; exit 129 ;;
    esac
done
if [ "$mode" = no_permission ]; then
    echo 'Error:' >&2
    echo 'Access to performance monitoring and observability operations is limited.' >&2
    echo 'perf_event_paranoid setting is 4:' >&2
    exit 255
fi
case ",$events," in
*,nosuch,*)
    # Like the real one, prints only the end of a long list.
    printf "event syntax error: '..%s'\n" "$(printf %s "$events" | tail -c 20)" >&2
    exit 129
    ;;
esac
if [ "$mode" = silent ]; then
    sleep 1000 &
    printf '%s\n' $$ $! >"$PIDS"
    wait
fi
"$@"
code=$?
for event in $(echo "$events" | tr , ' '); do
    case "$event" in
    task-clock) echo '1500.00,msec,task-clock,1500000000,100.00,0.5,CPUs utilized' ;;
    page-faults) echo '321,,page-faults,1500000000,100.00,214.000,/sec' ;;
    *) echo "<not supported>,,$event,0,100.00,," ;;
    esac
done >"$out"
exit $code
