//! Query parameters.
//!
//! Pure. Owns: the rules of DSP0266 (7.3): unknown parameters are ignored, unknown ones with a `$`
//! are not implemented, and a page links to the next.

use serde_json::{Value, json};

/// The requested part of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::rack::redfish) struct Page {
    top: Option<usize>,
    skip: usize,
}

/// Reason why a query is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rack::redfish) enum QueryError {
    /// The service does not know the parameter (501).
    Unknown(String),
    /// The resource does not support it (400).
    NotHere(String),
    /// Its value is invalid (400).
    Value(String),
}

/// Parses a query. `pages`: whether the resource has pages.
pub(in crate::rack::redfish) fn read(query: &str, pages: bool) -> Result<Page, QueryError> {
    let mut page = Page::default();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = || value.parse().map_err(|_| QueryError::Value(key.to_owned()));
        match key.replace("%24", "$").as_str() {
            "$skip" if pages => page.skip = number()?,
            "$top" if pages => page.top = Some(number()?),
            "$top" | "$skip" => return Err(QueryError::NotHere(key.to_owned())),
            unknown if unknown.starts_with('$') => {
                return Err(QueryError::Unknown(unknown.to_owned()));
            }
            _ => {}
        }
    }
    Ok(page)
}

/// Reduces a collection to the requested part, with at most `most` members on a page.
pub(in crate::rack::redfish) fn cut(collection: &mut Value, page: Page, most: usize) {
    let path = collection.get("@odata.id").cloned().unwrap_or_default();
    let Some(Value::Array(members)) = collection.get_mut("Members") else {
        return;
    };
    let total = members.len();
    let wanted = page.top.unwrap_or(total).min(most);
    members.drain(..page.skip.min(total));
    members.truncate(wanted);
    let end = page.skip + members.len();
    // A page limited by the client has no next link.
    if end < total && page.top.is_none_or(|top| top > wanted) && wanted > 0 {
        let path = path.as_str().unwrap_or_default();
        let next = match page.top {
            Some(top) => format!("{path}?$skip={end}&$top={}", top - wanted),
            None => format!("{path}?$skip={end}"),
        };
        collection["Members@odata.nextLink"] = json!(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_collection() -> Value {
        json!({"@odata.id": "/c", "Members": [0, 1, 2, 3, 4]})
    }

    fn page_of(query: &str, most: usize) -> Value {
        let mut collection = mk_collection();
        cut(&mut collection, read(query, true).unwrap(), most);
        collection
    }

    #[test]
    fn collection_pages_are_linked() {
        let first = page_of("", 2);
        assert_eq!(first["Members"], json!([0, 1]));
        assert_eq!(first["Members@odata.nextLink"], "/c?$skip=2");
        let last = page_of("$skip=4", 2);
        assert_eq!(last["Members"], json!([4]));
        assert!(last["Members@odata.nextLink"].is_null());
        let past = page_of("$skip=9", 2);
        assert_eq!(past["Members"], json!([]));
    }

    #[test]
    fn top_limits_the_page() {
        let two = page_of("%24top=2&$skip=1", 50);
        assert_eq!(two["Members"], json!([1, 2]));
        assert!(two["Members@odata.nextLink"].is_null());
        let more = page_of("$top=4", 3);
        assert_eq!(more["Members@odata.nextLink"], "/c?$skip=3&$top=1");
        assert_eq!(page_of("$top=0", 3)["Members"], json!([]));
    }

    #[test]
    fn unknown_query_options_are_rejected_or_ignored() {
        assert_eq!(read("only&x=1", false), Ok(Page::default()));
        let unknown = Err(QueryError::Unknown("$expand".to_owned()));
        assert_eq!(read("$expand=.", true), unknown);
        assert_eq!(
            read("$top=x", true),
            Err(QueryError::Value("$top".to_owned()))
        );
        assert_eq!(
            read("$top=1", false),
            Err(QueryError::NotHere("$top".to_owned()))
        );
    }
}
