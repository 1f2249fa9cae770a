//! The reconcile loop: snapshot, desired, plan, apply
