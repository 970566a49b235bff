/* list: order, removal and splicing of links that live inside objects. */
#include "base/list.h"

#include "check.h"

struct item {
    int number;
    struct list link;
};

/* The numbers in order as digits of one number, and the same backwards: both directions must agree.
 */
static void assert_order(struct list *head, int expected)
{
    int forwards = 0, backwards = 0, place = 1;

    LIST_FOREACH(link, head) {
        assert_ptr_equal(link->next->prev, link);
        assert_ptr_equal(link->prev->next, link);
        forwards = forwards * 10 + LIST_ENTRY(link, struct item, link)->number;
    }
    for (struct list *link = head->prev; link != head; link = link->prev, place *= 10)
        backwards += LIST_ENTRY(link, struct item, link)->number * place;
    assert_int_equal(forwards, expected);
    assert_int_equal(backwards, expected);
}

static void pushes_go_to_the_end_and_unshifts_to_the_front(void **state)
{
    struct list head;
    struct item one = {.number = 1}, two = {.number = 2}, three = {.number = 3};

    (void)state;
    list_init(&head);
    assert_true(list_empty(&head));
    assert_null(list_shift(&head));
    list_push(&head, &two.link);
    list_push(&head, &three.link);
    list_unshift(&head, &one.link);
    assert_false(list_empty(&head));
    assert_order(&head, 123);
}

static void shifting_takes_the_first_off(void **state)
{
    struct list head;
    struct item one = {.number = 1}, two = {.number = 2};

    (void)state;
    list_init(&head);
    list_push(&head, &one.link);
    list_push(&head, &two.link);
    assert_ptr_equal(list_shift(&head), &one.link);
    assert_true(list_empty(&one.link));
    assert_order(&head, 2);
    assert_ptr_equal(list_shift(&head), &two.link);
    assert_null(list_shift(&head));
}

static void removing_twice_is_harmless(void **state)
{
    struct list head;
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};

    (void)state;
    list_init(&head);
    for (size_t i = 0; i < LEN(items); i++)
        list_push(&head, &items[i].link);
    list_remove(&items[1].link);
    list_remove(&items[1].link);
    assert_order(&head, 13);
    list_push(&head, &items[1].link);
    assert_order(&head, 132);
}

static void the_safe_loop_may_remove_the_current_one(void **state)
{
    struct list head;
    struct item items[5];

    (void)state;
    list_init(&head);
    for (int i = 0; i < (int)LEN(items); i++) {
        items[i].number = i + 1;
        list_push(&head, &items[i].link);
    }
    LIST_FOREACH_SAFE(link, after, &head) {
        struct item *item = LIST_ENTRY(link, struct item, link);
        if (item->number % 2 == 0) {
            list_remove(link);
            memset(item, 0xff, sizeof(*item));
        }
    }
    assert_order(&head, 135);
}

static void splicing_moves_everything_to_the_end(void **state)
{
    struct list a, b;
    struct item items[4] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};

    (void)state;
    list_init(&a);
    list_init(&b);
    list_splice(&a, &b);
    assert_true(list_empty(&a));
    list_push(&b, &items[0].link);
    list_push(&b, &items[1].link);
    list_splice(&a, &b);
    assert_order(&a, 12);
    assert_true(list_empty(&b));
    list_push(&b, &items[2].link);
    list_push(&b, &items[3].link);
    list_splice(&a, &b);
    assert_order(&a, 1234);
    list_splice(&a, &b);
    assert_order(&a, 1234);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_go_to_the_end_and_unshifts_to_the_front),
        cmocka_unit_test(shifting_takes_the_first_off),
        cmocka_unit_test(removing_twice_is_harmless),
        cmocka_unit_test(the_safe_loop_may_remove_the_current_one),
        cmocka_unit_test(splicing_moves_everything_to_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
