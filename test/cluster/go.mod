module github.com/skerry-run/skerry/test/cluster

go 1.26.0
