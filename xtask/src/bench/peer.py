"""The Python side of `cargo xtask bench ovsdb`: ovs.db.idl, steered by lines on standard input.

Loads a database, says so, then follows changes or inserts ports as told; see peer.rs for the lines.
"""

import json
import sys
import time
import uuid

import ovs.db.idl
import ovs.json
import ovs.poller

TABLES = {
    "OVN_Southbound": ["Datapath_Binding", "Port_Binding"],
    "OVN_Northbound": ["Logical_Switch", "Logical_Switch_Port"],
}
KEY = "bench_seq"


class Follower(ovs.db.idl.Idl):
    seen = None

    def notify(self, event, row, updates=None):
        if self.seen is not None and event == ovs.db.idl.ROW_UPDATE and row._table.name == "Port_Binding":
            sequence = row.external_ids.get(KEY)
            if sequence is not None:
                self.seen.append([int(sequence), time.monotonic_ns()])


def say(**what):
    print(json.dumps(what), flush=True)


def wait(idl, done):
    while True:
        idl.run()
        if done():
            return
        poller = ovs.poller.Poller()
        idl.wait(poller)
        poller.block()


def insert(idl, switch, ports, per_transaction):
    begin = time.monotonic()
    for start in range(0, len(ports), per_transaction):
        txn = ovs.db.idl.Transaction(idl)
        for port in ports[start : start + per_transaction]:
            row = txn.insert(idl.tables["Logical_Switch_Port"])
            row.name = port["name"]
            row.addresses = [port["address"]]
            row.port_security = [port["address"]]
            row.options = port["options"]
            row.external_ids = port["external_ids"]
            row.enabled = True
            switch.addvalue("ports", row)
        status = txn.commit_block()
        if status != ovs.db.idl.Transaction.SUCCESS:
            raise SystemExit("commit: %s %s" % (status, txn.get_error()))
    say(seconds=time.monotonic() - begin)


def main():
    remote, database, schema = sys.argv[1:]
    helper = ovs.db.idl.SchemaHelper(schema)
    for table in TABLES[database]:
        helper.register_table(table)
    idl = Follower(remote, helper)
    wait(idl, idl.has_ever_connected)
    rows = sum(len(idl.tables[table].rows) for table in TABLES[database])
    say(loaded=rows, note="C JSON parser" if ovs.json.PARSER == ovs.json.PARSER_C else "JSON parser in Python")
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "changes":
            idl.seen = []
            say(ready=True)
            wait(idl, lambda: len(idl.seen) >= order["count"])
            say(done=True)
        elif order["do"] == "report":
            say(at=idl.seen)
        elif order["do"] == "insert":
            switches = idl.tables["Logical_Switch"].rows
            switch = uuid.UUID(order["switch"])
            wait(idl, lambda: switch in switches)
            say(ready=True)
            insert(idl, switches[switch], order["ports"], order["per_transaction"])


main()
