//! Operations: beginning, following and cancelling them, and releasing the holds that they leave.

use futures::StreamExt;
use rackhand_proto::v1;
use tonic::{Request, Response};

use super::{
    Answer, Streaming,
    caller::{Caller, owner},
    operation_request::{RequestValidator, operation_id},
    targets::Targets,
};
use crate::{
    engine::{Holds, JournalStatus, Operations},
    journal::OperationFilter,
};

/// Default number of operations in a list.
const USUAL_LIST: u32 = 100;
const LONGEST_LIST: u32 = 1000;

/// The calls about operations and holds.
#[derive(Clone)]
pub(super) struct OperationCalls {
    pub(super) targets: Targets,
    pub(super) validator: RequestValidator,
    pub(super) operations: Operations,
    pub(super) holds: Holds,
    pub(super) journal: JournalStatus,
}

impl OperationCalls {
    pub(super) async fn begin(
        &self,
        request: Request<v1::BeginRequest>,
    ) -> Answer<v1::BeginResponse> {
        let caller = Caller::of(&request)?;
        let request = self.validator.validate(caller, request.into_inner())?;
        let (started, status) = self.operations.begin(request).await?;
        Ok(Response::new(v1::BeginResponse {
            started,
            status: Some(status),
            journal: Some(self.journal.identity()),
        }))
    }

    pub(super) async fn follow(
        &self,
        request: Request<v1::AwaitRequest>,
    ) -> Answer<Streaming<v1::AwaitResponse>> {
        Caller::of(&request)?;
        let id = operation_id(request.into_inner().operation_id)?;
        let events = self.operations.follow(&id).await?;
        Ok(Response::new(Box::pin(events.map(Ok))))
    }

    pub(super) async fn list(
        &self,
        request: Request<v1::ListOperationsRequest>,
    ) -> Answer<v1::ListOperationsResponse> {
        Caller::of(&request)?;
        let request = request.into_inner();
        let limit = match request.limit {
            0 => USUAL_LIST,
            limit => limit.min(LONGEST_LIST),
        };
        let asked = OperationFilter {
            id: Some(request.operation_id).filter(|id| !id.is_empty()),
            host: Some(request.host).filter(|host| !host.is_empty()),
            owner: Some(request.owner).filter(|owner| !owner.is_empty()),
            running_only: request.running_only,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let operations = self.operations.list(asked).await?;
        Ok(Response::new(v1::ListOperationsResponse { operations }))
    }

    pub(super) async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Answer<v1::CancelResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let id = operation_id(request.operation_id)?;
        let authority = caller.authority(request.term, None)?;
        let status = self
            .operations
            .cancel(&id, authority, request.force)
            .await?;
        Ok(Response::new(v1::CancelResponse {
            status: Some(status),
        }))
    }

    pub(super) async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Answer<v1::ReleaseResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let name = request.target.as_ref().map(|target| target.host.clone());
        let target = self.targets.find(&caller, request.target);
        let target = target.map_err(|status| (name.unwrap_or_default(), status));
        let authority = caller.authority(request.term, Some(request.sequence))?;
        let owner = owner(&authority, request.owner)?;
        let released = self
            .holds
            .release(target, authority, owner, request.force)
            .await?;
        Ok(Response::new(v1::ReleaseResponse { released }))
    }
}
