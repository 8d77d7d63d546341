//! Which worker runs a task: of a stage with a task for each worker, always the same one, so that a query that is repeated finds its share
//! of a store where it was read before.

use datafusion::common::Result;
use datafusion_distributed::{DistributedGetterExt, RouteTasksEvent, RouteTasksEventResponse};
use url::Url;

/// Routes tasks by their number, among the workers of their session.
pub fn route_by_number(event: RouteTasksEvent) -> Option<Result<RouteTasksEventResponse>> {
    let config = event.task_ctx.session_config();
    let workers = config.get_distributed_worker_resolver();
    let workers = workers.and_then(|workers| workers.get_urls());
    match workers {
        Ok(workers) => {
            let urls = routes(&workers, event.task_count)?;
            Some(Ok(RouteTasksEventResponse::new(urls)))
        }
        Err(error) => Some(Err(error)),
    }
}

/// The worker of each of `tasks`. None for stages that leave workers without a task: these begin at a worker by chance, so that small queries
/// do not all use the first ones.
fn routes(workers: &[Url], tasks: usize) -> Option<Vec<Url>> {
    if workers.is_empty() || tasks < workers.len() {
        return None;
    }
    Some(workers.iter().cycle().take(tasks).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_its_place() {
        let url = |n: u16| Url::parse(&format!("http://127.0.0.1:{n}")).unwrap();
        let two = [url(1), url(2)];
        assert_eq!(routes(&two, 2), Some(vec![url(1), url(2)]));
        assert_eq!(routes(&two, 3), Some(vec![url(1), url(2), url(1)]));
        assert_eq!(routes(&two, 1), None);
        assert_eq!(routes(&[], 1), None);
    }
}
