//! Lists in which updates are looked for: their order, their pages, and what of them is not known.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{LIMIT, MANAGER, SERVICE, TASKS, at, serves, task, with_tasks};
use crate::bmc::{Reply, TestBmc};

#[tokio::test]
async fn list_that_cannot_be_expanded_is_read_plainly() {
    let bmc = TestBmc::with(|seen, _| {
        (seen.path == TASKS && !seen.query.is_empty()).then(|| Reply::status(501))
    })
    .await;
    serves(&bmc, &[task("Running")]);
    let features = json!({"ExpandQuery": {"NoLinks": true, "Levels": true}});
    bmc.world(|w| w.root["ProtocolFeaturesSupported"] = features);
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.running().unwrap().source, "task 7");
    assert!(found.unread.is_empty(), "{found:?}");
}

/// The members of the tasks, in this order; each has its own number.
fn lists(bmc: &TestBmc, ids: &[u32]) {
    let links: Vec<Value> = ids.iter().map(|id| at(&format!("{TASKS}/{id}"))).collect();
    bmc.put(TASKS, json!({"Members": links}));
    for id in ids {
        let mut ended = task("Completed");
        ended["Id"] = json!(id.to_string());
        bmc.put(&format!("{TASKS}/{id}"), ended);
    }
}

#[tokio::test]
async fn newest_task_is_found_in_a_list_that_is_sorted_by_letters() {
    let bmc = with_tasks(&[]).await;
    lists(&bmc, &[1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9]);
    let mut running = task("Running");
    running["Id"] = json!("12");
    bmc.put(&format!("{TASKS}/12"), running);
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.running().unwrap().source, "task 12");
    assert_eq!(
        bmc.count("GET", &format!("{TASKS}/9")),
        0,
        "it was the first"
    );
}

#[tokio::test]
async fn tasks_at_work_do_not_hide_an_older_update() {
    let bmc = with_tasks(&[]).await;
    let ids: Vec<u32> = (1..=12).collect();
    lists(&bmc, &ids);
    for id in 3..=12 {
        let backup = json!({"Id": id.to_string(), "Name": "Backup", "TaskState": "Running"});
        bmc.put(&format!("{TASKS}/{id}"), backup);
    }
    let mut running = task("Running");
    running["Id"] = json!("2");
    bmc.put(&format!("{TASKS}/2"), running);
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.running().unwrap().source, "task 2");
}

#[tokio::test]
async fn pages_of_a_list_are_followed_and_a_list_without_an_end_is_not() {
    let page = |number: u32| format!("/redfish/v1/pages/{number}");
    let bmc = with_tasks(&[]).await;
    bmc.put(
        TASKS,
        json!({"Members": [at(&format!("{TASKS}/1"))], "Members@odata.nextLink": page(1)}),
    );
    bmc.put(&page(1), json!({"Members": [at(&format!("{TASKS}/2"))]}));
    bmc.put(&format!("{TASKS}/1"), task("Completed"));
    bmc.put(&format!("{TASKS}/2"), task("Running"));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(found.running().is_some(), "{found:?}");
    // The last page leads to itself.
    bmc.put(
        &page(1),
        json!({"Members": [at(&format!("{TASKS}/1"))], "Members@odata.nextLink": page(1)}),
    );
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(bmc.count("GET", &page(1)) <= 4, "bounded");
    assert!(
        found.read.iter().any(|read| read.contains("and more")),
        "{found:?}"
    );
}

/// What was not read of these lists of tasks.
async fn unread(pages: &[(&str, Value)]) -> Vec<String> {
    let bmc = with_tasks(&[]).await;
    bmc.put(&format!("{TASKS}/1"), task("Completed"));
    for (path, page) in pages {
        bmc.put(path, page.clone());
    }
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(found.running().is_none(), "{found:?}");
    found.unread
}

#[tokio::test]
async fn what_is_not_read_of_a_list_is_said() {
    let one = at(&format!("{TASKS}/1"));
    let page = |number: u32| format!("/redfish/v1/pages/{number}");
    let next = |to: &str| json!({"Members": [one], "Members@odata.nextLink": to});
    let pages: Vec<(String, Value)> = (1..6)
        .map(|number| (page(number), next(&page(number + 1))))
        .collect();
    let pages: Vec<(&str, Value)> = pages
        .iter()
        .map(|(path, page)| (path.as_str(), page.clone()))
        .chain([(TASKS, next(&page(1)))])
        .collect();
    assert_eq!(unread(&pages).await, ["tasks: more than 4 pages"]);
    for (list, why) in [
        (next(TASKS), "a page leads back to one before it"),
        (next("/gone"), "404 for gone, to which the BMC refers"),
        (
            json!({"Members": [one, at(&format!("{TASKS}/2"))]}),
            "404 for 2, to which the BMC refers",
        ),
        (
            json!({"Members": [], "Members@odata.count": 3}),
            "0 of 3 members are listed",
        ),
        (
            json!({"Name": "Tasks"}),
            "the BMC answered without a list of members",
        ),
    ] {
        assert_eq!(unread(&[(TASKS, list)]).await, [format!("tasks: {why}")]);
    }
    let gone = ("/redfish/v1/TaskService", json!({"Tasks": at("/none")}));
    let why = "tasks: 404 for none, to which the BMC refers";
    assert_eq!(unread(&[gone]).await, [why]);
    let why = "UpdateService: the BMC answered with JSON that is no object";
    assert_eq!(unread(&[(SERVICE, json!([1, 2]))]).await, [why]);
}

#[tokio::test]
async fn next_page_is_found_by_a_reference_that_is_relative_to_its_document() {
    let bmc = TestBmc::with(|seen, _| {
        let is_second = seen.path == TASKS && seen.query == "p=1";
        is_second.then(|| Reply::json(200, &json!({"Members": [at(&format!("{TASKS}/2"))]})))
    })
    .await;
    serves(&bmc, &[]);
    let first = json!({"Members": [at(&format!("{TASKS}/1"))], "Members@odata.nextLink": "?p=1"});
    bmc.put(TASKS, first);
    bmc.put(&format!("{TASKS}/1"), task("Completed"));
    bmc.put(&format!("{TASKS}/2"), task("Running"));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(found.running().is_some(), "{found:?}");
}

/// The members of a list of so many tasks, of which this one is at work.
fn members(count: usize, running: usize) -> Vec<Value> {
    let member = |id: usize| {
        let mut member = task(if id == running {
            "Running"
        } else {
            "Completed"
        });
        member["@odata.id"] = json!(format!("{TASKS}/{id}"));
        member["Id"] = json!(id.to_string());
        member
    };
    (1..=count).map(member).collect()
}

#[tokio::test]
async fn task_at_work_is_found_anywhere_in_a_list_that_includes_its_members() {
    for (count, running) in [(257, 1), (1000, 500), (5000, 1), (5000, 2500), (5000, 5000)] {
        let bmc = with_tasks(&[]).await;
        bmc.put(TASKS, json!({"Members": members(count, running)}));
        let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
        let source = found.running().map(|update| update.source.clone());
        assert_eq!(source, Some(format!("task {running}")), "{count}");
    }
    let bmc = with_tasks(&[]).await;
    bmc.put(TASKS, json!({"Members": members(5000, 0)}));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(
        found.unread.is_empty() && found.updates.is_empty(),
        "{found:?}"
    );
}

/// A BMC with a list of 5,000 tasks that refers to its members, of which this one is at work. It filters, if it can, by
/// `filter`, and records the queries.
async fn with_long_list(
    running: usize,
    filter: Option<fn(usize) -> Value>,
) -> (TestBmc, Arc<Mutex<Vec<String>>>) {
    let queries = Arc::new(Mutex::new(Vec::new()));
    let seen_queries = queries.clone();
    let bmc = TestBmc::with(move |seen, _| {
        if seen.path != TASKS || seen.query.is_empty() {
            return None;
        }
        seen_queries.lock().unwrap().push(seen.query.clone());
        filter.map(|filter| Reply::json(200, &filter(running)))
    })
    .await;
    serves(&bmc, &[]);
    if filter.is_some() {
        bmc.world(|w| w.root["ProtocolFeaturesSupported"] = json!({"FilterQuery": true}));
    }
    let links: Vec<Value> = (1..=5000).map(|id| at(&format!("{TASKS}/{id}"))).collect();
    bmc.put(TASKS, json!({"Members": links}));
    for member in members(5000, running) {
        let path = member["@odata.id"].as_str().unwrap().to_owned();
        bmc.put(&path, member);
    }
    (bmc, queries)
}

#[tokio::test]
async fn task_at_work_in_the_middle_of_a_long_list_is_found_by_a_filter() {
    let filter = |running: usize| json!({"Members": [at(&format!("{TASKS}/{running}"))]});
    let (bmc, queries) = with_long_list(2500, Some(filter)).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.running().unwrap().source, "task 2500");
    let queries = queries.lock().unwrap();
    assert!(queries[0].contains("TaskState"), "{queries:?}");
}

#[tokio::test]
async fn filter_that_finds_nothing_at_work_makes_a_long_list_known() {
    let (bmc, _) = with_long_list(0, Some(|_| json!({"Members": []}))).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(
        found.unread.is_empty() && found.updates.is_empty(),
        "{found:?}"
    );
}

#[tokio::test]
async fn what_a_filter_hides_or_leaves_out_is_not_known() {
    // It finds nothing, although the newest task is at work on something else.
    let (bmc, _) = with_long_list(0, Some(|_| json!({"Members": []}))).await;
    let backup = json!({"Id": "5000", "Name": "Backup", "TaskState": "Running"});
    bmc.put(&format!("{TASKS}/5000"), backup);
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.unread, ["tasks: 7 of 5000 were read"]);
    // It counts more than it lists.
    let more = |_| json!({"Members": [], "Members@odata.count": 3});
    let (bmc, _) = with_long_list(0, Some(more)).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.unread, ["tasks: 6 of 5000 were read"]);
}

#[tokio::test]
async fn long_list_that_is_not_read_whole_is_not_one_without_updates() {
    let (bmc, queries) = with_long_list(2500, None).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.unread, ["tasks: 6 of 5000 were read"]);
    assert!(queries.lock().unwrap().is_empty(), "it has no filter");
    bmc.put(&format!("{TASKS}/5000"), task("Running"));
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(
        found.running().is_some() && found.unread.is_empty(),
        "{found:?}"
    );
}

#[tokio::test]
async fn short_list_is_read_whole() {
    let bmc = with_tasks(&[]).await;
    let ids: Vec<u32> = (1..=12).collect();
    lists(&bmc, &ids);
    let mut running = task("Running");
    running["Id"] = json!("3");
    bmc.put(&format!("{TASKS}/3"), running);
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.running().unwrap().source, "task 3");
}

#[tokio::test]
async fn task_at_work_that_does_not_say_what_it_does_is_not_known() {
    let opaque = json!({"Id": "7", "Name": "Task 7", "TaskState": "Running"});
    let bmc = with_tasks(&[opaque]).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(
        found.unread,
        ["tasks: 7 is Running and does not say what it does"]
    );
}

#[tokio::test]
async fn task_with_a_name_that_no_rule_knows_is_not_known() {
    let unknown = json!({"Id": "7", "Name": "Component update", "TaskState": "Running"});
    let bmc = with_tasks(&[unknown]).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(
        found.unread,
        ["tasks: 7 \"Component update\" is Running and does not say what it does"]
    );
}

#[tokio::test]
async fn task_without_a_state_is_an_update_that_runs() {
    for state in [json!(null), json!(""), json!(5)] {
        let bmc =
            with_tasks(&[json!({"Id": "7", "Name": "BIOS update", "TaskState": state})]).await;
        let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
        assert_eq!(found.running().unwrap().source, "task 7", "{state}");
    }
}

/// An OpenBMC with so many images, of which the one at this place is being activated.
async fn with_inventory(count: usize, updating: usize) -> TestBmc {
    const INVENTORY: &str = "/redfish/v1/UpdateService/FirmwareInventory";
    let bmc = with_tasks(&[]).await;
    bmc.put(SERVICE, json!({"FirmwareInventory": at(INVENTORY)}));
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [at(MANAGER)]}}));
    bmc.put(MANAGER, json!({"Model": "OpenBmc"}));
    let path = |place: usize| format!("{INVENTORY}/{place:03}");
    let links: Vec<Value> = (0..count).map(|place| at(&path(place))).collect();
    bmc.put(INVENTORY, json!({"Members": links}));
    for place in 0..count {
        let state = if place == updating {
            "Updating"
        } else {
            "Enabled"
        };
        let image = json!({"Id": place.to_string(), "Status": {"State": state}});
        bmc.put(&path(place), image);
    }
    bmc
}

#[tokio::test]
async fn image_that_is_activated_is_found_anywhere_in_an_inventory() {
    for (count, updating) in [(40, 0), (40, 20), (100, 50), (128, 0), (128, 127)] {
        let bmc = with_inventory(count, updating).await;
        let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
        let source = found.running().map(|update| update.source.clone());
        assert_eq!(source, Some(format!("software {updating}")), "{count}");
    }
    let bmc = with_inventory(100, usize::MAX).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert!(found.unread.is_empty(), "{found:?}");
}

#[tokio::test]
async fn inventory_without_bound_is_read_in_part_and_not_known() {
    let bmc = with_inventory(200, usize::MAX).await;
    let found = bmc.client().firmware_updates(LIMIT).await.unwrap();
    assert_eq!(found.unread, ["firmware inventory: 128 of 200 were read"]);
}
