//! #[derive(Table)] for meridian-ovsdb
