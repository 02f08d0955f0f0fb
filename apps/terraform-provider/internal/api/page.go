package api

import "fmt"

const (
	// pageSize is the largest that the API gives.
	pageSize = 1000
	// pagesMax ends a list that never ends.
	pagesMax = 1000
)

// All gathers the items of every page. `next` asks for the page of a token (nil: the first one) with
// the size, and returns its items and the next token.
func All[T any](next func(size int, token *string) ([]T, *string, error)) ([]T, error) {
	var items []T
	var token *string
	for range pagesMax {
		page, following, err := next(pageSize, token)
		if err != nil {
			return nil, err
		}
		items = append(items, page...)
		if following == nil {
			return items, nil
		}
		token = following
	}
	return nil, fmt.Errorf("a list did not end after %d pages of %d; tell the operators", pagesMax, pageSize)
}
