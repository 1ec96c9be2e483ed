#!/usr/bin/env bash
# Apache Kafka 4.4 from its Maven jars: a broker behind the command line of `fencepost serve`, and Kafka's own tools.
#
#   kafka.sh install                                          fetch the jars (once)
#   kafka.sh format --data DIR [--listen HOST:PORT] [-X K=V]… write its settings and format its directory, where that is new
#   kafka.sh serve --data DIR [--listen HOST:PORT] [-X K=V]…  format it, run one combined node; port 0 picks a free one
#   kafka.sh tool NAME [ARGUMENT]…                            run one of Kafka's tools: topics, configs, …
#   kafka.sh steps NAME [ARGUMENT]…                           run a tool once for each line of more arguments, in one process
#   kafka.sh classpath                                        print the class path
#
# `serve` keeps its process id, prints one line `fencepost ready HOST:PORT` once the port answers, and everything else on stderr.
# KAFKA_HEAP sets the broker's heap (1g, the default of Kafka's start script); CARGO_TARGET_DIR moves the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${CARGO_TARGET_DIR:-$here/../../target}/xtask/kafka
logging=-Dlog4j2.configurationFile=$here/kafka/log4j2.properties

install() {
  [ ! -e "$cache/installed" ] || return 0
  mvn -q -B -Dstyle.color=never -f "$here/kafka/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$cache/jars" >&2
  touch "$cache/installed"
}

# Below those that the system gives to clients, so that it is still free when the broker starts again.
free_port() {
  python3 - <<'P'
import random, socket
for port in random.sample(range(20000, 32000), 100):
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            continue
    print(port)
    break
P
}

# Reads the arguments of format and serve, and writes the directory where it is new.
format() {
  data='' host=127.0.0.1 port=9092
  local settings=()
  while [ $# -gt 0 ]; do
    case $1 in
      --data) data=$2 ;;
      --listen) host=${2%:*} port=${2##*:} ;;
      -X) settings+=("$2") ;;
      *) echo "no option named $1" >&2; exit 2 ;;
    esac
    shift 2
  done
  [ -n "$data" ] || { echo "--data is missing" >&2; exit 2; }
  properties=$data/server.properties
  if [ -e "$properties" ]; then
    port=$(sed -n 's|^advertised.listeners=.*:||p' "$properties")
    return 0
  fi
  mkdir -p "$data"
  [ "$port" != 0 ] || port=$(free_port)
  local controller; controller=$(free_port)
  cat > "$properties" <<P
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://$host:$port,CONTROLLER://$host:$controller
advertised.listeners=PLAINTEXT://$host:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$data/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
P
  for setting in "${settings[@]}"; do echo "$setting" >> "$properties"; done
  # The last one counts; a setting may name another id.
  echo "controller.quorum.voters=$(sed -n 's/^node.id=//p' "$properties" | tail -1)@$host:$controller" >> "$properties"
  java "$logging" -cp "$cache/jars/*" kafka.tools.StorageTool format -c "$properties" -t AAAAAAAAAAAAAAAAAAAAAQ > "$data/format.log" 2>&1 ||
    { cat "$data/format.log" >&2; exit 1; }
}

serve() {
  format "$@"
  # A child waits for the port and says so on stdout; this process becomes the broker.
  (
    for _ in $(seq 1200); do
      if (exec 3<> "/dev/tcp/$host/$port") 2> /dev/null; then echo "fencepost ready $host:$port"; exit; fi
      sleep 0.05
    done
  ) &
  local heap=${KAFKA_HEAP:-1g}
  exec java "-Xms$heap" "-Xmx$heap" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 "$logging" -cp "$cache/jars/*" kafka.Kafka "$properties" >&2 < /dev/null
}

# Sets `class`.
class_of() {
  case $1 in
    topics) class=TopicCommand ;;
    transactions) class=TransactionsCommand ;;
    consumer-groups) class=consumer.group.ConsumerGroupCommand ;;
    console-consumer) class=consumer.ConsoleConsumer ;;
    console-producer) class=ConsoleProducer ;;
    configs) class=ConfigCommand ;;
    features) class=FeatureCommand ;;
    dump-log) class=DumpLogSegments ;;
    *) echo "no tool named $1" >&2; exit 2 ;;
  esac
}

run() {
  exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "$logging" -cp "$cache/jars/*" "$@"
}

tool() {
  class_of "$1"
  run "org.apache.kafka.tools.$class" "${@:2}"
}

steps() {
  class_of "$1"
  run "$here/kafka/Steps.java" "org.apache.kafka.tools.$class" "${@:2}"
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
  install) install ;;
  format) install; format "$@" ;;
  serve) install; serve "$@" ;;
  tool) install; tool "$@" ;;
  steps) install; steps "$@" ;;
  classpath) install; echo "$cache/jars/*" ;;
  *) sed -n '2,12p' "$0"; exit 2 ;;
esac
