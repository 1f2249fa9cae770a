-- The tables as the first version made them.
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), seq BIGINT NOT NULL);
INSERT INTO state (one, seq) VALUES (1, 0);
CREATE TABLE changes (
    seq BIGINT NOT NULL,
    batch TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (seq, kind, key)
);
CREATE TABLE address_scopes (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE subnetpools (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    address_scope_id TEXT REFERENCES address_scopes (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE networks (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE subnets (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    network_id TEXT NOT NULL REFERENCES networks (id) DEFERRABLE INITIALLY DEFERRED,
    subnetpool_id TEXT REFERENCES subnetpools (id) DEFERRABLE INITIALLY DEFERRED,
    cidr TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE security_groups (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE security_group_rules (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    security_group_id TEXT NOT NULL REFERENCES security_groups (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE ports (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    network_id TEXT NOT NULL REFERENCES networks (id) DEFERRABLE INITIALLY DEFERRED,
    mac_address TEXT NOT NULL,
    device_id TEXT NOT NULL,
    device_owner TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (network_id, mac_address)
);
CREATE TABLE ipallocations (
    port_id TEXT NOT NULL REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    subnet_id TEXT NOT NULL REFERENCES subnets (id) DEFERRABLE INITIALLY DEFERRED,
    ip_address TEXT NOT NULL,
    PRIMARY KEY (subnet_id, ip_address)
);
CREATE INDEX ipallocations_of_port ON ipallocations (port_id);
CREATE TABLE routers (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    gw_port_id TEXT REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE router_extra_attributes (
    router_id TEXT PRIMARY KEY REFERENCES routers (id) DEFERRABLE INITIALLY DEFERRED,
    enable_default_route_ecmp BOOLEAN NOT NULL,
    enable_default_route_bfd BOOLEAN NOT NULL
);
CREATE TABLE routerports (
    router_id TEXT NOT NULL REFERENCES routers (id) DEFERRABLE INITIALLY DEFERRED,
    port_id TEXT PRIMARY KEY REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    port_type TEXT NOT NULL
);
CREATE TABLE floatingips (
    id TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    floating_network_id TEXT NOT NULL REFERENCES networks (id) DEFERRABLE INITIALLY DEFERRED,
    floating_ip_address TEXT NOT NULL,
    floating_port_id TEXT NOT NULL REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    fixed_port_id TEXT REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    router_id TEXT REFERENCES routers (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL,
    UNIQUE (floating_network_id, floating_ip_address)
);
CREATE TABLE rbac_policies (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE placements (
    id TEXT PRIMARY KEY REFERENCES ports (id) DEFERRABLE INITIALLY DEFERRED,
    body TEXT NOT NULL
);
CREATE TABLE quotas (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE agent_settings (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE adopted_rows (id TEXT PRIMARY KEY, body TEXT NOT NULL);
