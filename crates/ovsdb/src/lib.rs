//! An OVSDB client: typed replica, change feed, transactions
