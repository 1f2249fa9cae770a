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
    /// Reads in every project.
    pub auditor: bool,
    /// Octavia's own roles, which count where the operator has chosen them.
    pub balancer: BalancerRoles,
}

/// The roles that Octavia had before Keystone's general ones: `load-balancer_admin` and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BalancerRoles {
    /// Everything, in every project.
    pub admin: bool,
    /// Reads and writes in its project.
    pub member: bool,
    /// Reads in its project.
    pub observer: bool,
    /// Reads in every project.
    pub global_observer: bool,
    /// Sets quotas.
    pub quota_admin: bool,
}

/// The roles that decide about load balancers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BalancerRoleSet {
    /// Keystone's general ones: admin, member, reader.
    #[default]
    General,
    /// [`BalancerRoles`], and `admin`.
    Own,
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
            auditor: false,
            balancer: BalancerRoles::default(),
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

    /// The caller as the load-balancer API sees it.
    pub fn of_load_balancers(self, roles: BalancerRoleSet) -> Self {
        let own = self.balancer;
        match roles {
            BalancerRoleSet::General => Caller { balancer: BalancerRoles::default(), ..self },
            BalancerRoleSet::Own => Caller {
                admin: self.admin || own.admin,
                manager: false,
                member: own.member,
                reader: own.member || own.observer,
                auditor: own.global_observer,
                balancer: BalancerRoles { quota_admin: own.quota_admin, ..BalancerRoles::default() },
                ..self
            },
        }
    }

    /// Whether the caller, as [`of_load_balancers`](Self::of_load_balancers) gives it, may read and set quotas of any project.
    pub fn sets_balancer_quotas(&self) -> bool {
        self.admin || self.balancer.quota_admin
    }

    /// Whether objects of `project` are there for the caller.
    pub fn sees_project(&self, project: &str) -> bool {
        self.admin || self.service || self.auditor || ((self.reader || self.member) && self.owns(project))
    }

    /// Whether the caller may make, change and delete objects of `project`.
    pub fn changes_project(&self, project: &str) -> bool {
        self.admin || (self.member && self.owns(project))
    }
}
