module rackhand/hack/real/member

go 1.26.0
