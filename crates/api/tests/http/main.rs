//! Tests the API over HTTP: a real server on a socket, a real store, a real client.

mod api_page;
mod bad_input;
mod cli;
mod credentials;
mod documents;
mod engines;
mod gateways;
mod import;
mod objects;
mod parity;
mod schema;
mod server;
mod slow;
