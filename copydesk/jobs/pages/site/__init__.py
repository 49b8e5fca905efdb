"""The sites of a repository: their generators, navigation, links and anchors."""
