//! Who asks: project and roles, as the credentials told.

/// The one a request is made by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The project the credentials are scoped to; empty if they have none.
    pub project: String,
    /// The user, for logs.
    pub user: String,
    /// Everything, in every project.
    pub admin: bool,
    /// Chooses in its project what members may not, such as the address of a floating IP.
    pub manager: bool,
    /// Reads and writes in its project.
    pub member: bool,
    /// Reads in its project.
    pub reader: bool,
    /// Other OpenStack services: bindings and the like, in every project.
    pub service: bool,
}

impl Caller {
    /// An administrator working in `project`, where nobody else is there to be another service either.
    pub fn admin(project: impl Into<String>) -> Self {
        Caller { admin: true, manager: true, service: true, ..Self::member(project) }
    }

    /// A member of `project`.
    pub fn member(project: impl Into<String>) -> Self {
        let project = project.into();
        Caller {
            project,
            user: String::new(),
            admin: false,
            manager: false,
            member: true,
            reader: true,
            service: false,
        }
    }

    /// Somebody who may only read in `project`.
    pub fn reader(project: impl Into<String>) -> Self {
        Caller { member: false, ..Self::member(project) }
    }

    /// Whether an object of `project` is the caller's own.
    pub fn owns(&self, project: &str) -> bool {
        !project.is_empty() && self.project == project
    }

    /// Whether objects of `project` are there for the caller.
    pub fn sees_project(&self, project: &str) -> bool {
        self.admin || self.service || ((self.reader || self.member) && self.owns(project))
    }

    /// Whether the caller may make, change and delete objects of `project`.
    pub fn changes_project(&self, project: &str) -> bool {
        self.admin || (self.member && self.owns(project))
    }
}
